"""What brokers say to each other.

messages   the messages, as typed structs
events     events as bytes
"""
