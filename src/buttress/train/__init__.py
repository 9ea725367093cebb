"""At scale: select problems, train, evaluate, on real models and data, with TRL and accelerate."""
