# What `cmake --install` puts where. The library is one archive made of every folder below cli/ and serve/.
