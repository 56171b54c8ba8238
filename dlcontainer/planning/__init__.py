"""One recipe for one site, settled: variants, layers, contradictions. Pure."""
