"""Figures of certificates, for images and for clouds. No torch."""
