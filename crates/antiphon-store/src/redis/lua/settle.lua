-- Ends a dead job's rest. ARGV the id, and `revive` or `discard`. Returns whether there was one.
bury_lapsed(256)
local id = ARGV[1]
if redis.call('ZREM', dead, id) == 0 then
    return 0
end
local _, payload = body_of(id)
redis.call('HDEL', body, id)
if ARGV[2] == 'revive' then
    put(id, 0, payload)
    wake_one()
else
    redis.call('HDEL', ids, id)
end
return 1
