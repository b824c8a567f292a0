"""Analysis jobs: a DataFrame in, a DataFrame out."""
