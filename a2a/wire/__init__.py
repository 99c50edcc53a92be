"""The protocol's own words: pure, without Django and without a network.

What is stored and passed about inside is A2A 1.0's JSON in camelCase, so each other version and encoding is a pair of
functions to and from that.
"""
