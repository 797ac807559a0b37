#!lua flags=allow-oom
-- KEYS[1] the bucket; ARGV the key and the revision it must be at. Returns whether it was.
local key = ARGV[1]
local record, expiries = KEYS[1] .. ':r:' .. key, KEYS[1] .. ':x'
if redis.call('HGET', record, 'n') ~= ARGV[2] then
    return 0
end
redis.call('DEL', record)
redis.call('ZREM', KEYS[1] .. ':i', key)
redis.call('ZREM', expiries, key)
local kind = string.match(key, '^([^/]+)/')
if kind then
    redis.call('ZREM', expiries .. ':' .. kind, key)
end
return 1
