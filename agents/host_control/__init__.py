"""Fine-grained host control: PFC pauses, a week's days and nights, and dequeue conditions."""
