"""Fine-grained host control: PFC pauses, the days and nights of a week, and dequeue conditions."""
