"""What every command is told in the same way, and how it reaches a store or a hub by that."""
