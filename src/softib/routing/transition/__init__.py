"""Forwarding tables while they change: can a credit loop arise between old and new?"""
