"""The suite `takeover`: how long topics of a killed hub are away."""
