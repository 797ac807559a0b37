-- Returns how many wait, are leased and are dead.
local lapsed = redis.call('ZCOUNT', last, '-inf', now)
local leases = redis.call('ZCARD', held) + redis.call('ZCARD', last) - lapsed
local gone = redis.call('ZCARD', dead) + lapsed
return { redis.call('HLEN', ids) - leases - gone, leases, gone }
