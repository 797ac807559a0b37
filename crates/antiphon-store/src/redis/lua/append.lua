#!lua
-- KEYS[1] the log; ARGV[1] how many entries it must have, then the new ones.
-- Returns whether it had them, and how many it has.
local length = redis.call('LLEN', KEYS[1])
if length ~= tonumber(ARGV[1]) then
    return { 0, length }
end
-- Lua passes no more than some thousands of arguments at once.
local STEP = 1000
for at = 2, #ARGV, STEP do
    length = redis.call('RPUSH', KEYS[1], unpack(ARGV, at, math.min(at + STEP - 1, #ARGV)))
end
return { 1, length }
