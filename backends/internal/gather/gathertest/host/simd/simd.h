// Empty: metal_stdlib here has all that the texts need.
