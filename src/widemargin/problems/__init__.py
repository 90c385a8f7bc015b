"""Problems: data, loss and regularisation, what is being minimised, and its value."""
