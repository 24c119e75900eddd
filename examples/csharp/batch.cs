// Reads many variables in one round trip, and writes two together or not at all.
//
//     mono batch.exe [URL]

using System;
using Trunkline;

static class Batch
{
    static int Main(string[] arguments)
    {
        var url = arguments.Length > 0 ? arguments[0] : "tl:///";
        try
        {
            using (var client = Client.Connect(url, 5000))
            {
                var variables = client.Open(new[] { "boiler/setpoint", "boiler/mode", "boiler/level" }, 2000);
                var values = client.Read(variables, 2000);
                Console.WriteLine("setpoint {0}, mode {1}, level {2}", values[0], values[1], values[2]);
                using (var writes = client.CreateWrites())
                {
                    var commit = writes.Add(variables[0], 68.0).Add(variables[1], "AUTO").SendAsGroup(2000);
                    Console.WriteLine("written together, commit {0}", commit);
                }
            }
            return 0;
        }
        catch (TrunklineException error)
        {
            Console.Error.WriteLine("{0}: {1}", error.Name, error.Message);
            return 1;
        }
    }
}
