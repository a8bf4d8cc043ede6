/* Nothing: the existence of the library is its content. */
