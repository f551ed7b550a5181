"""The admin endpoint of a hub: views and actions for operators, over HTTP."""
