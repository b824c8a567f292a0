"""The scenarios of `penstock bench matching`, a file each; `penstock.bench.scenario` reads them."""
