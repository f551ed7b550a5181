"""The settings that all commands share, and how a command reaches a store or a hub with them."""
