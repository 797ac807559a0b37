-- ARGV the id, the payload and the delay. Returns whether the job was added.
local place = redis.call('HGET', ids, ARGV[1])
if place and not is_lost(ARGV[1], place) then
    return 0
end
local delay = tonumber(ARGV[3])
if delay > 0 then
    put_later(ARGV[1], 0, ARGV[2], delay)
else
    put(ARGV[1], 0, ARGV[2])
    wake_one()
end
return 1
