"""The YAML configuration: its schema, how it is read and checked, and the settings that processes get."""
