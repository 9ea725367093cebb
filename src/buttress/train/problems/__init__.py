"""Problems to solve: where they come from, and how a model is asked."""
