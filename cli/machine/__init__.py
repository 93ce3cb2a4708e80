"""Commands about one machine or file: check, doctor, systemd units, switch configuration."""
