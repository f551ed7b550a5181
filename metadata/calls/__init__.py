"""Calls to a store: lost replies resolved, single operations gathered, conflicts counted."""
