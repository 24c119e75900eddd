// Writes a setpoint, and waits until its owner has accepted it.
//
//     mono setpoint.exe [URL [NAME [VALUE]]]

using System;
using System.Globalization;
using Trunkline;

static class Setpoint
{
    static int Main(string[] arguments)
    {
        var url = arguments.Length > 0 ? arguments[0] : "tl:///";
        var name = arguments.Length > 1 ? arguments[1] : "boiler/setpoint";
        var value = arguments.Length > 2 ? double.Parse(arguments[2], CultureInfo.InvariantCulture) : 75.0;
        try
        {
            using (var client = Client.Connect(url, 5000))
            {
                var setpoint = client.Open(name, 2000);
                client.Write(setpoint, value, 2000);
                var now = client.Read(setpoint, 2000).ToString(CultureInfo.InvariantCulture);
                Console.WriteLine("{0} = {1}, confirmed", name, now);
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
