"""The scenarios that come with `penstock sim`, a file each; `penstock.sim.scenario` reads them."""
