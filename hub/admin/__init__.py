"""The admin endpoint of a hub: what operators see and do, over HTTP."""
