"""K runs on graphs at once: data as padded tables, networks with stacked parameters, one captured step."""
