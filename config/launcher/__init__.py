"""`manage.py up`: every process of one host under one parent that restarts what dies and takes all with it."""
