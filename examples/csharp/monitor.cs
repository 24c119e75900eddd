// Follows a variable, and says how many updates were lost.
//
//     mono monitor.exe [URL [NAME [CONTRACT [COUNT]]]]

using System;
using System.Globalization;
using Trunkline;

static class Monitor
{
    static int Main(string[] arguments)
    {
        var url = arguments.Length > 0 ? arguments[0] : "tl:///";
        var name = arguments.Length > 1 ? arguments[1] : "boiler/level";
        var contract = arguments.Length > 2 ? arguments[2] : "last:1000";
        var wanted = arguments.Length > 3 ? int.Parse(arguments[3]) : 10;
        try
        {
            using (var client = Client.Connect(url, 5000))
            using (var readings = new Readings())
            using (var subscription = client.Subscribe(new[] { name }, contract))
            {
                while (wanted > 0 && subscription.NextAsync(readings, 100, 10000).Result)
                {
                    var count = readings.Count;
                    for (var index = 0; index < count && wanted > 0; index++, wanted--)
                    {
                        var reading = readings[index];
                        var value = reading.Value.ToString(CultureInfo.InvariantCulture);
                        Console.WriteLine("{0}, update {1}, {2} lost before it", value, reading.Sequence, reading.Lost);
                    }
                }
            }
            return wanted == 0 ? 0 : 1;
        }
        catch (TrunklineException error)
        {
            Console.Error.WriteLine("{0}: {1}", error.Name, error.Message);
            return 1;
        }
    }
}
