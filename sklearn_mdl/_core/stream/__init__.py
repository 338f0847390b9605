"""The prequential pass: predict a minibatch, observe its labels, learn, repeat."""
