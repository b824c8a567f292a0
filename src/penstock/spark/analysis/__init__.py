"""Analysis that brokers should not do themselves: DataFrame in, DataFrame out.

profile         what the attributes of events are like; of `summaries`, `sketches` and `binning`
distributions   a profile as what the engine and the merging of filters take
similarity      how alike a subscription is to what would take its place, from a trace
"""
