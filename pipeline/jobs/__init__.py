"""The jobs of hedwig-pipeline, a module each, whose `command` is the job; what they do is in the modules around."""
