"""What comes in from switches and hosts: checked, bounded and told before it is believed."""
