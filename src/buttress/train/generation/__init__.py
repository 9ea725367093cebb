"""Completions of a model: loading it, and sampling with transformers or vLLM."""
