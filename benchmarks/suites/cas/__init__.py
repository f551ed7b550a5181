"""The suite `cas`: compare-and-set, driver against driver."""
