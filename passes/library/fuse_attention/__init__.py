"""Recognize attention that is written as products and a softmax, and compute it with one operator."""
