"""Every event to every node: `protocol = "flood"`, the baseline that others are compared with.

node         the core: which message leads to what
messages     what nodes say to each other, besides events
whereabouts  who publishes where, as far as nodes have told each other
losses       nodes that died with what they kept, and which clients are told
"""
