"""The suite `metadata`: the managers over stores of up to ten million topics."""
