"""What every REST path shares: reading, answering, refusing, describing itself."""
