"""The jobs of hedwig-pipeline, one per module; `command` is the job. The packages beside this one do the work."""
