"""Attention: scores, masks, the one softmax, and what surrounds it; needs PyTorch alone."""
