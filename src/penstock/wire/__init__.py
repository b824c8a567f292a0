"""Bytes: how what brokers and clients say travels.

messages   what brokers say to each other, as typed structs
codec      the same as bytes
requests   what clients say to their broker, and its answers
greetings  how a connection begins
events     events as bytes
blocks     many events in one buffer
frames     how messages are told apart in a stream of bytes
sessions   numbered frames, acknowledgements, going on after a lost connection
"""
