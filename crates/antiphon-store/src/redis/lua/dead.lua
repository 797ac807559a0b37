-- ARGV after which id, how many, and after how many bytes to stop.
-- Returns whether there are more, then of each its id, payload and attempts.
bury_lapsed(256)
local limit, room = tonumber(ARGV[2]), tonumber(ARGV[3])
local found = redis.call('ZRANGEBYLEX', dead, ARGV[1], '+', 'LIMIT', 0, limit)
local reply = { 0 }
for at, id in ipairs(found) do
    local attempts, payload = body_of(id)
    table.insert(reply, id)
    table.insert(reply, payload)
    table.insert(reply, attempts)
    room = room - #payload
    if room <= 0 or at == limit then
        reply[1] = 1
        break
    end
end
return reply
