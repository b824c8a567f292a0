"""The live network: brokers and clients that talk over sockets.

Everything here has to do with the outside: sockets, clocks, files, certificates. What a broker decides is
decided in `penstock.broker`.

tokens   who somebody is, and what that one may do: JSON Web Tokens
tls      contexts for connections that are encrypted
"""
