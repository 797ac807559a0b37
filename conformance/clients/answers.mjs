// What every client answers, by the name of the property it is asked for.
export const answers = { destination: 'Lisbon', month: 'May', hotel: 'Aurora', meal: 'fish', seat: 'window' };
export const call = { name: 'plan_trip', arguments: { traveller: 'Ada' } };

export function answer(request, asked) {
  const [property] = Object.keys(request.params.requestedSchema.properties);
  asked.push(property);
  return { action: 'accept', content: { [property]: answers[property] } };
}

// Counts at the transport, which sees what really leaves, retries included.
export function countCalls(transport) {
  const counter = { calls: 0 };
  const send = transport.send.bind(transport);
  transport.send = (message, ...rest) => {
    for (const it of [message].flat()) if (it.method === 'tools/call') counter.calls += 1;
    return send(message, ...rest);
  };
  return counter;
}

export function report(line) {
  console.log(JSON.stringify(line));
}
