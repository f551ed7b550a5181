"""Arguments of commands: names and their completion, files, selections, questions."""
