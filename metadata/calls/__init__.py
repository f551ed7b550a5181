"""Calls to a store: lost replies resolved, changes repeated, single operations gathered, conflicts counted."""
