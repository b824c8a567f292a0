"""Numba kernels over flat arrays: no Python objects, no logic that is not about arrays.

`jit` decides once how kernels are compiled, cached and threaded. Importing any other module of this
package imports Numba, which takes a few tenths of a second: do it where a kernel is first needed.
"""
