"""What several test files share: small hierarchies, networks, bundles and photos, and a browser."""
